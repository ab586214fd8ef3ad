"""What a run or a comparison came to, for people: in the terminal, and as one HTML file.

Read `phases` (a run's episodes at a glance), then `episode_view` (one episode turn by turn).
"""
