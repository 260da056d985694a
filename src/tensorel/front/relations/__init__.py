"""Relations as results: named columns, made when somebody asks."""
