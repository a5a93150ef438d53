# SPDX-License-Identifier: Apache-2.0
# Prints a Markdown file in which the lines between "<!-- MARKER:begin -->" and ":end" are replaced
# by those of FILE:
# awk -v marker=MARKER -v file=FILE -f scripts/between.awk README
$0 == "<!-- " marker ":end -->" { inside = 0 }
!inside { print }
$0 == "<!-- " marker ":begin -->" {
	inside = 1
	while ((getline line < file) > 0)
		print line
}
