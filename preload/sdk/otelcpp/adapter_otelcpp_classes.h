/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes of opentelemetry-cpp by which an instance without symbols is found, and the
 * properties that each must have (sdk_typeinfo.h). Data only.
 */
#ifndef SP_ADAPTER_OTELCPP_CLASSES_H
#define SP_ADAPTER_OTELCPP_CLASSES_H

#include "preload/sdk/otelcpp/adapter_otelcpp.h"
#include "preload/sdk/otelcpp/otelcpp_abi.h"
#include "preload/sdk/sdk_typeinfo.h"

#define SP_OTELCPP_MARKER "N13opentelemetry2v"
#define SP_OTELCPP_TYPE_NAME(V, rest) SP_OTELCPP_MARKER V rest

/*
 * The classes of one ABI version, in the order of enum sp_otelcpp_type, then storages, then
 * libc++'s classes of the two control blocks.
 */
#define SP_OTELCPP_STORAGE_CLASSES SP_OTELCPP_TYPE_N
#define SP_OTELCPP_LIBCXX_INSIDE (SP_OTELCPP_TYPE_N + 1)
#define SP_OTELCPP_LIBCXX_POINTER (SP_OTELCPP_TYPE_N + 2)
#define SP_OTELCPP_CLASSES (SP_OTELCPP_TYPE_N + 3)
_Static_assert(SP_OTELCPP_VERSIONS *SP_OTELCPP_CLASSES <= SP_TYPEINFO_CLASSES_MAX, "all at once");
// clang-format off
#define SP_OTELCPP_CLASSES_OF(V, tracer_slots, span_slots) \
	{ \
		.kind = SP_TYPEINFO_CLASS, \
		.name = SP_OTELCPP_TYPE_NAME(V, "3sdk5trace6TracerE"), \
		.base = SP_OTELCPP_TYPE_NAME(V, "5trace6TracerE"), \
		.slots_min = (tracer_slots), .slots_max = (tracer_slots), \
		.destructors = SP_OTELCPP_SLOT_D1, \
	}, { \
		.kind = SP_TYPEINFO_CLASS, \
		.name = SP_OTELCPP_TYPE_NAME(V, "3sdk5trace4SpanE"), \
		.base = SP_OTELCPP_TYPE_NAME(V, "5trace4SpanE"), \
		.slots_min = (span_slots), .slots_max = (span_slots), \
		.destructors = SP_OTELCPP_SLOT_D1, \
	}, { \
		.kind = SP_TYPEINFO_PREFIX, \
		.name = "St23_Sp_counted_ptr_inplaceI" SP_OTELCPP_TYPE_NAME(V, "3sdk5trace4SpanE"), \
		.slots_min = SP_OTELCPP_CONTROL_SLOTS, .slots_max = SP_OTELCPP_CONTROL_SLOTS, \
		.destructors = SP_OTELCPP_SLOT_D1, \
	}, { \
		.kind = SP_TYPEINFO_PREFIX, \
		.name = "St15_Sp_counted_ptrIP" SP_OTELCPP_TYPE_NAME(V, "3sdk5trace4SpanE"), \
		.slots_min = SP_OTELCPP_CONTROL_SLOTS, .slots_max = SP_OTELCPP_CONTROL_SLOTS, \
		.destructors = SP_OTELCPP_SLOT_D1, \
	}, { \
		.kind = SP_TYPEINFO_DERIVED, \
		.name = SP_OTELCPP_TYPE_NAME(V, "7context21RuntimeContextStorageE"), \
		.slots_min = SP_OTELCPP_STORAGE_SLOTS, .slots_max = SP_OTELCPP_STORAGE_SLOTS_MAX, \
		.destructors = SP_OTELCPP_STORAGE_SLOT_D1, \
	}, { \
		.kind = SP_TYPEINFO_PREFIX, \
		.name = "NSt3__120__shared_ptr_emplaceI" SP_OTELCPP_TYPE_NAME(V, "3sdk5trace4SpanE"), \
		.slots_min = SP_OTELCPP_LIBCXX_CONTROL_SLOTS, .slots_max = SP_OTELCPP_CONTROL_SLOTS, \
		.destructors = SP_OTELCPP_SLOT_D1, \
	}, { \
		.kind = SP_TYPEINFO_PREFIX, \
		.name = "NSt3__120__shared_ptr_pointerIP" SP_OTELCPP_TYPE_NAME(V, "3sdk5trace4SpanE"), \
		.slots_min = SP_OTELCPP_LIBCXX_CONTROL_SLOTS, .slots_max = SP_OTELCPP_CONTROL_SLOTS, \
		.destructors = SP_OTELCPP_SLOT_D1, \
	}
// clang-format on

static const struct sp_typeinfo_class sp_otelcpp_classes[SP_OTELCPP_VERSIONS * SP_OTELCPP_CLASSES] =
	{
		SP_OTELCPP_CLASSES_OF("1", SP_OTELCPP_TRACER_SLOTS_V1, SP_OTELCPP_SPAN_SLOTS_V1),
		SP_OTELCPP_CLASSES_OF("2", SP_OTELCPP_TRACER_SLOTS_V2, SP_OTELCPP_SPAN_SLOTS_V2),
};

#endif
