"""What weft requires of the outside world, as Protocols; fakes and real drivers pass the same contract suites."""
