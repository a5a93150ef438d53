/* SPDX-License-Identifier: Apache-2.0 */
/* The whole report tool as one object, its main() under a name that a test can call. */
#define _GNU_SOURCE
#include "report_unit.h"

#define main sp_report_main
#include "export/report/main.c"
#undef main
#include "export/report/json.c"
#include "export/report/load.c"
#include "export/report/status.c"
#include "export/report/table.c"
#include "export/report/tally.c"
