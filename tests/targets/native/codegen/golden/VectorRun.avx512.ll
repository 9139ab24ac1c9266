define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  %v5 = getelementptr inbounds i64, ptr %operands, i64 2
  %v6 = load ptr, ptr %v5, align 8, !invariant.load !0
  %v7 = load <16 x float>, ptr %v4, align 4
  br label %v8
v8:
  %v9 = phi i64 [ 0, %entry ], [ %v18, %v8 ]
  %v10 = mul nsw i64 %v9, 32
  %v11 = mul nsw i64 %v9, 20
  %v12 = getelementptr inbounds float, ptr %v2, i64 %v10
  %v13 = getelementptr inbounds float, ptr %v6, i64 %v11
  %v14 = load <16 x float>, ptr %v12, align 4
  %v15 = fadd <16 x float> %v14, %v7
  %v16 = fcmp olt <16 x float> %v15, splat (float 0x0000000000000000)
  %v17 = select <16 x i1> %v16, <16 x float> splat (float 0x0000000000000000), <16 x float> %v15
  store <16 x float> %v17, ptr %v13, align 4
  %v18 = add nuw nsw i64 %v9, 1
  %v19 = icmp ult i64 %v18, 2
  br i1 %v19, label %v8, label %v20
v20:
  %v21 = getelementptr inbounds float, ptr %v2, i64 16
  %v22 = getelementptr inbounds float, ptr %v4, i64 16
  %v23 = getelementptr inbounds float, ptr %v6, i64 16
  %v24 = load <4 x float>, ptr %v22, align 4
  %v25 = shufflevector <4 x float> %v24, <4 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v26 = shufflevector <16 x float> splat (float 0x0000000000000000), <16 x float> %v25, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  br label %v27
v27:
  %v28 = phi i64 [ 0, %v20 ], [ %v40, %v27 ]
  %v29 = mul nsw i64 %v28, 32
  %v30 = mul nsw i64 %v28, 20
  %v31 = getelementptr inbounds float, ptr %v21, i64 %v29
  %v32 = getelementptr inbounds float, ptr %v23, i64 %v30
  %v33 = load <4 x float>, ptr %v31, align 4
  %v34 = shufflevector <4 x float> %v33, <4 x float> poison, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v35 = shufflevector <16 x float> splat (float 0x0000000000000000), <16 x float> %v34, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v36 = fadd <16 x float> %v35, %v26
  %v37 = fcmp olt <16 x float> %v36, splat (float 0x0000000000000000)
  %v38 = select <16 x i1> %v37, <16 x float> splat (float 0x0000000000000000), <16 x float> %v36
  %v39 = shufflevector <16 x float> %v38, <16 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  store <4 x float> %v39, ptr %v32, align 4
  %v40 = add nuw nsw i64 %v28, 1
  %v41 = icmp ult i64 %v40, 2
  br i1 %v41, label %v27, label %v42
v42:
  ret void
}
!0 = !{}
