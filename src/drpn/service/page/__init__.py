"""The page for editors: a reader's profile, the front page and why, a try-out, live figures and the model card."""
