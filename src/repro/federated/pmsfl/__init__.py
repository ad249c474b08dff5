"""PM-SFL: Algorithm 1 of the paper, and the methods that it is compared with."""
