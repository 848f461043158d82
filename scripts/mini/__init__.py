"""Train the embedded default pair `mini` from the Python source at hand."""
