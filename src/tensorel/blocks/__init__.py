"""Programs over blocks at many sites: their lineage, what a placement costs, where work goes."""
