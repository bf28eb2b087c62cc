"""Everything that knows SGLang: its flags and rules, log lines, answers, ways to fail."""
