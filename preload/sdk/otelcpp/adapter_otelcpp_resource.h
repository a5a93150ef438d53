/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource of opentelemetry-cpp's tracer provider: who sets service.name in code, as is usual
 * in C++, wants profiles under the same name as spans. APP context, inside the reentrancy guard;
 * nothing is called and nothing is allocated.
 */
#ifndef SP_ADAPTER_OTELCPP_RESOURCE_H
#define SP_ADAPTER_OTELCPP_RESOURCE_H

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/*
 * Hands the resource behind one of the SDK's own spans on to sp_sdk_resource(). It is proved first:
 * by the type that the tracer's context says it has, and by the attribute telemetry.sdk.language,
 * which every release puts into a resource. Does nothing if it is not found or not as we know it
 * (releases before 1.19, libc++, -fno-rtti). release: the attribute telemetry.sdk.version, "" if
 * nothing is found.
 */
void sp_otelcpp_resource_read(const struct sp_otelcpp *sdk, const void *span,
			      char release[SP_SDK_RELEASE_MAX]);

#endif
