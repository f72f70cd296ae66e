"""What a trained model is shipped as."""
