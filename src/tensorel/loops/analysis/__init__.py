"""What is known of a program before it runs: bounds of whole numbers, variables that are set."""
