"""Faults planted in operators and networks of torch, and what the shipped claims say of them.

faults          what a fault is: where it sits, what it does, how large it is
formulas        other formulas, forward or backward, one a line
operators       the list of faults in operators
networks        the list of faults in nodes of networks
algorithms      other right algorithms for sums, products and convolutions
functions       further ones, and the list of all
right           trials of what is right, and how many broke a bound
trials          runs them, and has the claims of the shipped manifests judge them
own             right modules of users
"""
