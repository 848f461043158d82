"""What is run from a checkout: how the embedded model and the heads were made."""
