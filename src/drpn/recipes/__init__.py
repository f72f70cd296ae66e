"""One readable function for each job."""
