"""What a check found, as data: report, verdicts, enclosure and JSON. No torch."""
