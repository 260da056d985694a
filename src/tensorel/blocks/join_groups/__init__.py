"""Join groups: their lineage by a pilot run on keys, what a placement costs, where they go."""
