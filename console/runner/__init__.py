"""Starts the whole product on one machine: embedded services, processes, and their supervisor."""
