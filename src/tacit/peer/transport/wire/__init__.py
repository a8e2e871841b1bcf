"""Made from tacit.proto by `make proto`; tests/peer/test_generated.py says when it is out of date."""
