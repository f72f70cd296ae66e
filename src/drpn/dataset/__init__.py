"""Tables become numbers: feedback, profiles, graph, split, words; written as a dataset folder."""
