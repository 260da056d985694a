"""Tables of other libraries and files: pandas, polars, Arrow, DuckDB, Parquet."""
