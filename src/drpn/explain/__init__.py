"""What a model trusted: traces as plain data, and pictures of them."""
