--  SPDX-License-Identifier: Apache-2.0
--  A package within a procedure, and a procedure within that.
with Ada.Text_IO;
procedure Shapes is
   Sum : Long_Float := 0.0;
   package Shop is
      procedure Total (N : Integer);
   end Shop;
   package body Shop is
      procedure Total (N : Integer) is
         procedure Add (K : Integer) is
         begin
            Sum := Sum * 1.5 + Long_Float (K);
         end Add;
      begin
         for I in 1 .. N loop
            Add (I);
         end loop;
      end Total;
   end Shop;
begin
   Shop.Total (10);
   Ada.Text_IO.Put_Line (Long_Float'Image (Sum));
end Shapes;
