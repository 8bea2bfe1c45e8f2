"""`relayout`'s exact strategy held against public solvers: who agrees, who is how fast."""
