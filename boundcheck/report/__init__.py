"""Results of checks as data: report, verdicts, enclosure and JSON. Never imports torch."""
