"""One folder per paper, with its catalogue; what several of them share stands beside them."""
