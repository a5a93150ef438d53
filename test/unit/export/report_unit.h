/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-report's main(), for tests. */
#ifndef SP_REPORT_UNIT_H
#define SP_REPORT_UNIT_H

int sp_report_main(int argc, char **argv);

#endif
