"""Read dataset folders; needs numpy only."""
