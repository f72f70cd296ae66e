"""Query engines that read logs."""
