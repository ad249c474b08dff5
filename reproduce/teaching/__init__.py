"""Lessons: exercises that check themselves, attack games, diagrams, and the two editions of a lesson."""
