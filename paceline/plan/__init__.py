"""What speculation is worth: numbers in, numbers out; nothing here measures or touches a tensor."""
