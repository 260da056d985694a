"""Plans of steps over sites: grids of cells, rounds where memory is short, the whole program."""
