"""One function for each job: prepare, train, evaluate, explain and more."""
