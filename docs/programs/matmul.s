# c = relu(a · b + bias) for a [128, 256] and b [256, 128], by tiles of 32×32 that sum over pieces of 64.
#
# Every operand has two places in the scratchpad, so that all units work at once: while the matrix unit
# multiplies one pair of pieces, the load unit fetches the next one, and while it begins the next tile
# of c, the store unit writes the last one.
#
#   words 0 to 4095       two pieces of a, 32×64 each
#   words 4096 to 8191    two pieces of b, 64×32 each
#   words 8192 to 10239   two tiles of c, 32×32 each
#   words 10240 to 10367  bias
#
# `[0 + 2048@i2]` alternates between word 0 and word 2048 with every trip of loop i2, and goes on
# doing so when that loop begins anew. Units run on their own; semaphores order them. `?n` waits
# for semaphore n before an instruction, `!n` signals it when the instruction is done:
#
#   1  a pair of pieces was loaded           3  a tile of c is complete
#   2  a pair of places is free: 2 at first  4  a place for a tile of c is free: 2 at first
#   5  bias was loaded
#
#   autotune time docs/programs/matmul.s --target edge --marks --trace matmul.json

.program "matmul"
.scratchpad 10368
.tensor 0 "a" input (128, 256)
.tensor 1 "b" constant (256, 128)
.tensor 2 "bias" constant (128)
.tensor 3 "c" output (128, 128)

.core
.credits (0, 0, 2, 0, 2, 0)

mark id=1                      # what follows is counted apart, as profile mark 1
load tensor=2 dst=[10240] size=(128) dst_stride=(1) !5
wait unit=matrix semaphore=5   # the matrix unit's queue waits before whatever comes next in it

mark id=2
loop trips=4 level=i0          # rows of tiles
  loop trips=4 level=i1        # tiles of a row
    wait unit=matrix semaphore=4
    loop trips=4 level=i2      # pieces of the sum
      # loads are executed in order: the signal of the second one says that both are there
      load tensor=0 dst=[0 + 2048@i2] size=(32, 64) dst_stride=(64, 1) at=(32*i0, 64*i2) ?2
      load tensor=1 dst=[4096 + 2048@i2] size=(64, 32) dst_stride=(32, 1) at=(64*i2, 32*i1) !1
      # by_level: add to c but in the first trip of i2; bias and relu in its last trip only
      matmul a=[0 + 2048@i2] b=[4096 + 2048@i2] c=[8192 + 1024@i1] bias=[10240 + 32*i1] m=32 n0=32 k0=64 a_m=64 a_k0=1 b_k0=32 b_n0=1 c_m=32 c_n0=1 accumulate=by_level epilogue=by_level k_level=i2 bias_axis=2 fn=relu ?1 !2
    end level=i2
    signal unit=matrix semaphore=3
    store tensor=3 src=[8192 + 1024@i1] size=(32, 32) src_stride=(32, 1) at=(32*i0, 32*i1) ?3 !4
  end level=i1
end level=i0
halt
