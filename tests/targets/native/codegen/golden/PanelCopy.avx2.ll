declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  br label %v5
v5:
  %v6 = phi i64 [ 0, %entry ], [ %v15, %v5 ]
  %v7 = phi ptr [ %v2, %entry ], [ %v14, %v5 ]
  %v8 = phi ptr [ %v4, %entry ], [ %v13, %v5 ]
  %v9 = load <8 x float>, ptr %v7, align 4
  store <8 x float> %v9, ptr %v8, align 4
  %v10 = getelementptr inbounds float, ptr %v7, i64 8
  %v11 = load <8 x float>, ptr %v10, align 4
  %v12 = getelementptr inbounds float, ptr %v8, i64 8
  store <8 x float> %v11, ptr %v12, align 4
  %v13 = getelementptr inbounds float, ptr %v8, i64 16
  %v14 = getelementptr inbounds float, ptr %v7, i64 20
  %v15 = add nuw nsw i64 %v6, 1
  %v16 = icmp ult i64 %v15, 3
  br i1 %v16, label %v5, label %v17
v17:
  %v18 = getelementptr inbounds float, ptr %v2, i64 16
  %v19 = getelementptr inbounds float, ptr %v4, i64 48
  br label %v20
v20:
  %v21 = phi i64 [ 0, %v17 ], [ %v27, %v20 ]
  %v22 = phi ptr [ %v18, %v17 ], [ %v26, %v20 ]
  %v23 = phi ptr [ %v19, %v17 ], [ %v25, %v20 ]
  %v24 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v22, i32 4, <8 x i1> <i1 1, i1 1, i1 1, i1 1, i1 0, i1 0, i1 0, i1 0>, <8 x float> zeroinitializer)
  store <8 x float> %v24, ptr %v23, align 4
  %v25 = getelementptr inbounds float, ptr %v23, i64 16
  %v26 = getelementptr inbounds float, ptr %v22, i64 20
  %v27 = add nuw nsw i64 %v21, 1
  %v28 = icmp ult i64 %v27, 3
  br i1 %v28, label %v20, label %v29
v29:
  ret void
}
!0 = !{}
