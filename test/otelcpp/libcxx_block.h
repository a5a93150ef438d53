/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block that libc++'s std::make_shared() puts around an object, with libc++'s names, slots and layout, for
 * machines without libc++. libstdc++'s smart pointer counts its references and calls it at the end.
 */
#ifndef TEST_OTELCPP_LIBCXX_BLOCK_H
#define TEST_OTELCPP_LIBCXX_BLOCK_H

#include <memory>
#include <new>
#include <utility>

namespace std
{
inline namespace __1
{

class __shared_weak_count
{
      public:
	virtual ~__shared_weak_count() = default;
	virtual void __on_zero_shared() noexcept = 0;
	virtual const void *__get_deleter(const void *) const noexcept
	{
		return nullptr;
	}
	virtual void __on_zero_shared_weak() noexcept = 0;

	long owners = 0;
	long weak_owners = 0;
};

template <class T> class __shared_ptr_emplace final : public __shared_weak_count
{
      public:
	template <class... A> explicit __shared_ptr_emplace(A &&...a)
	{
		new (storage) T(std::forward<A>(a)...);
	}
	T *object()
	{
		return std::launder(reinterpret_cast<T *>(storage));
	}
	void __on_zero_shared() noexcept override
	{
		object()->~T();
	}
	void __on_zero_shared_weak() noexcept override
	{
		delete this;
	}

      private:
	alignas(T) unsigned char storage[sizeof(T)];
};

} // namespace __1
} // namespace std

template <class B, class T, class... A> std::shared_ptr<B> libcxx_make_shared(A &&...a)
{
	auto *block = new std::__shared_ptr_emplace<T>(std::forward<A>(a)...);
	std::__shared_weak_count *volatile control = block;

	return std::shared_ptr<B>(block->object(), [called = control](B *) {
		called->__on_zero_shared();
		called->__on_zero_shared_weak();
	});
}

#endif
