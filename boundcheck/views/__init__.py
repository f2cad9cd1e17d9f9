"""What people look at: terminal, figures and the page. No torch."""
