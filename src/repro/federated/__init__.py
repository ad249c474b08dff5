"""The papers' algorithms, each in a file that reads like its box, and the parts they share."""
