/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes one interval's samples as as many profiles as the server's limits require. */
#ifndef SP_ENCODE_H
#define SP_ENCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/bounded_names.h"
#include "export/profile/pprof.h"
#include "export/profile/stack_map.h"
#include "export/symbols/symbolize.h"

/*
 * What a default server takes in one push: 16,000 samples, and 2 MiB uncompressed together with
 * the labels, because its rate limiter never lets more than one burst through.
 */
#define SP_ENCODE_SAMPLES 16000U
#define SP_ENCODE_BYTES (((size_t)2 << 20) - ((size_t)96 << 10))

struct sp_encoder {
	const struct sp_core_ops *ops;
	struct sp_symbolizer *symbolizer;
	const struct sp_bounded_names *threads; /* NULL = no thread_name labels */
	struct sp_pprof_limits limits;
	struct sp_pprof_times times;
	/* The waits, after the samples: NULL = there are none. They may be all there is. */
	const struct sp_stack_map *waits;
	const struct sp_bounded_names *wait_names;
	/* They are in another profile as well, which is the one that they are counted in. */
	bool samples_elsewhere;
	bool waits_elsewhere;
};

/* Receives a packed profile and how many samples it stands for; the memory stays the caller's. */
typedef void (*sp_encoded)(void *arg, const struct sp_bytes *profile, uint64_t samples);

/* Asks the symbolizer for every address of the map; symbolize.h says what follows. */
void sp_encode_want(struct sp_symbolizer *symbolizer, const struct sp_stack_map *map);

/*
 * map: NULL = waits alone. Every sample of the maps gets into exactly one profile. When memory runs out, the profile that is
 * being made is dropped and counted, and encoding goes on with the next.
 */
void sp_encode(const struct sp_encoder *e, const struct sp_stack_map *map, sp_encoded put,
	       void *arg);

#endif
