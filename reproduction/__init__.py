"""Second distribution of this repository; a package only so that its tests have names of their own."""
