"""Save, load and run a trained model: its bundle, the encoded stories and the recommender."""
