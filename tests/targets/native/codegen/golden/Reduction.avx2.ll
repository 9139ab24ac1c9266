define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  br label %v5
v5:
  %v6 = phi i64 [ 0, %entry ], [ %v28, %v5 ]
  %v7 = getelementptr inbounds float, ptr %v2, i64 %v6
  %v8 = mul nsw i64 %v6, 20
  %v9 = getelementptr inbounds float, ptr %v4, i64 %v8
  %v10 = load <8 x float>, ptr %v9, align 4
  %v11 = getelementptr inbounds float, ptr %v9, i64 8
  %v12 = load <8 x float>, ptr %v11, align 4
  %v13 = fadd <8 x float> %v10, %v12
  %v14 = getelementptr inbounds float, ptr %v9, i64 16
  %v15 = load <4 x float>, ptr %v14, align 4
  %v16 = shufflevector <4 x float> %v15, <4 x float> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison>
  %v17 = shufflevector <8 x float> splat (float 0x8000000000000000), <8 x float> %v16, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 4, i32 5, i32 6, i32 7>
  %v18 = fadd <8 x float> %v13, %v17
  %v19 = shufflevector <8 x float> %v18, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v20 = shufflevector <8 x float> %v18, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v21 = fadd <4 x float> %v19, %v20
  %v22 = shufflevector <4 x float> %v21, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v23 = shufflevector <4 x float> %v21, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v24 = fadd <2 x float> %v22, %v23
  %v25 = extractelement <2 x float> %v24, i32 0
  %v26 = extractelement <2 x float> %v24, i32 1
  %v27 = fadd float %v25, %v26
  store float %v27, ptr %v7, align 4
  %v28 = add nuw nsw i64 %v6, 1
  %v29 = icmp ult i64 %v28, 2
  br i1 %v29, label %v5, label %v30
v30:
  ret void
}
!0 = !{}
