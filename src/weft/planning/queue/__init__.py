"""Time: who gets what when."""
