"""The parts a method is composed of; each can be exchanged without touching the others."""
