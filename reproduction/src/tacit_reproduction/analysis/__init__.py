"""Analysis that one text needs: mean-square theory, trajectory claims, the classic calibration."""
