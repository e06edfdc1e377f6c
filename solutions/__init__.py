"""What only a grader may see: reference estimators, hidden cases and known wrong answers."""
