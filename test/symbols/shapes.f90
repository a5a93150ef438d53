! SPDX-License-Identifier: Apache-2.0
! A module, and a procedure that is in another one.
module shop
	implicit none
contains
	subroutine total(n, sum)
		integer, intent(in) :: n
		real, intent(inout) :: sum
		integer :: i
		do i = 1, n
			sum = sum * 1.5 + inner(i)
		end do
	contains
		real function inner(k)
			integer, intent(in) :: k
			inner = sqrt(real(k)) + sum
		end function inner
	end subroutine total
end module shop

program report
	use shop
	implicit none
	real :: sum = 0
	call total(10, sum)
	call local(5)
	print *, sum
contains
	subroutine local(n)
		integer, intent(in) :: n
		integer :: i
		do i = 1, n
			sum = sum - real(i) / 3
		end do
	end subroutine local
end program report
