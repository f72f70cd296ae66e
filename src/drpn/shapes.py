"""Letters of tensor axes, used in every signature of layers/ and models/.

B  impressions in a batch    U  distinct stories in a batch    H  clicked history           N  skipped history
C  candidates                W  words of a title               D  size of a story vector    K  graph neighbours
A  words of an abstract      M  neighbour users
"""
