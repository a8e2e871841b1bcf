"""Analysis that one text needs: mean-square theory."""
