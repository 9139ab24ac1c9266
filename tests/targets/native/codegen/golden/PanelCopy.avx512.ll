declare <16 x float> @llvm.masked.load.v16f32.p0(ptr, i32, <16 x i1>, <16 x float>)
define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  br label %v5
v5:
  %v6 = phi i64 [ 0, %entry ], [ %v12, %v5 ]
  %v7 = phi ptr [ %v2, %entry ], [ %v11, %v5 ]
  %v8 = phi ptr [ %v4, %entry ], [ %v10, %v5 ]
  %v9 = load <16 x float>, ptr %v7, align 4
  store <16 x float> %v9, ptr %v8, align 4
  %v10 = getelementptr inbounds float, ptr %v8, i64 16
  %v11 = getelementptr inbounds float, ptr %v7, i64 20
  %v12 = add nuw nsw i64 %v6, 1
  %v13 = icmp ult i64 %v12, 3
  br i1 %v13, label %v5, label %v14
v14:
  %v15 = getelementptr inbounds float, ptr %v2, i64 16
  %v16 = getelementptr inbounds float, ptr %v4, i64 48
  br label %v17
v17:
  %v18 = phi i64 [ 0, %v14 ], [ %v24, %v17 ]
  %v19 = phi ptr [ %v15, %v14 ], [ %v23, %v17 ]
  %v20 = phi ptr [ %v16, %v14 ], [ %v22, %v17 ]
  %v21 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %v19, i32 4, <16 x i1> <i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0, i1 0>, <16 x float> zeroinitializer)
  store <16 x float> %v21, ptr %v20, align 4
  %v22 = getelementptr inbounds float, ptr %v20, i64 16
  %v23 = getelementptr inbounds float, ptr %v19, i64 20
  %v24 = add nuw nsw i64 %v18, 1
  %v25 = icmp ult i64 %v24, 3
  br i1 %v25, label %v17, label %v26
v26:
  ret void
}
!0 = !{}
