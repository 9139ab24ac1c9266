declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
declare <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16>, <32 x i16>)
define void @kernel(ptr noalias %operands, ptr noalias %numbers) nounwind {
entry:
  %v1 = getelementptr inbounds i64, ptr %operands, i64 0
  %v2 = load ptr, ptr %v1, align 8, !invariant.load !0
  %v3 = getelementptr inbounds i64, ptr %operands, i64 1
  %v4 = load ptr, ptr %v3, align 8, !invariant.load !0
  %v5 = getelementptr inbounds i64, ptr %operands, i64 2
  %v6 = load ptr, ptr %v5, align 8, !invariant.load !0
  %v7 = getelementptr float, ptr %v6, i64 0
  call void @llvm.prefetch.p0(ptr %v7, i32 1, i32 3, i32 1)
  %v8 = getelementptr inbounds float, ptr %v6, i64 16
  %v9 = getelementptr float, ptr %v8, i64 0
  call void @llvm.prefetch.p0(ptr %v9, i32 1, i32 3, i32 1)
  %v10 = load <16 x i32>, ptr %v4, align 4
  %v11 = getelementptr inbounds float, ptr %v4, i64 16
  %v12 = load <2 x i8>, ptr %v2, align 1
  %v13 = zext <2 x i8> %v12 to <2 x i16>
  %v14 = bitcast <2 x i16> %v13 to i32
  %v15 = insertelement <16 x i32> poison, i32 %v14, i64 0
  %v16 = shufflevector <16 x i32> %v15, <16 x i32> poison, <16 x i32> zeroinitializer
  %v17 = load <32 x i8>, ptr %v11, align 4
  %v18 = sext <32 x i8> %v17 to <32 x i16>
  %v19 = bitcast <32 x i16> %v18 to <16 x i32>
  %v20 = bitcast <16 x i32> %v16 to <32 x i16>
  %v21 = bitcast <16 x i32> %v19 to <32 x i16>
  %v22 = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %v20, <32 x i16> %v21)
  %v23 = add <16 x i32> %v10, %v22
  %v24 = getelementptr inbounds i8, ptr %v2, i64 5
  %v25 = load <2 x i8>, ptr %v24, align 1
  %v26 = zext <2 x i8> %v25 to <2 x i16>
  %v27 = bitcast <2 x i16> %v26 to i32
  %v28 = insertelement <16 x i32> poison, i32 %v27, i64 0
  %v29 = shufflevector <16 x i32> %v28, <16 x i32> poison, <16 x i32> zeroinitializer
  %v30 = bitcast <16 x i32> %v29 to <32 x i16>
  %v31 = bitcast <16 x i32> %v19 to <32 x i16>
  %v32 = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %v30, <32 x i16> %v31)
  %v33 = add <16 x i32> %v10, %v32
  %v34 = getelementptr inbounds float, ptr %v11, i64 8
  %v35 = getelementptr inbounds i8, ptr %v2, i64 2
  %v36 = load <2 x i8>, ptr %v35, align 1
  %v37 = zext <2 x i8> %v36 to <2 x i16>
  %v38 = bitcast <2 x i16> %v37 to i32
  %v39 = insertelement <16 x i32> poison, i32 %v38, i64 0
  %v40 = shufflevector <16 x i32> %v39, <16 x i32> poison, <16 x i32> zeroinitializer
  %v41 = load <32 x i8>, ptr %v34, align 4
  %v42 = sext <32 x i8> %v41 to <32 x i16>
  %v43 = bitcast <32 x i16> %v42 to <16 x i32>
  %v44 = bitcast <16 x i32> %v40 to <32 x i16>
  %v45 = bitcast <16 x i32> %v43 to <32 x i16>
  %v46 = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %v44, <32 x i16> %v45)
  %v47 = add <16 x i32> %v23, %v46
  %v48 = getelementptr inbounds i8, ptr %v35, i64 5
  %v49 = load <2 x i8>, ptr %v48, align 1
  %v50 = zext <2 x i8> %v49 to <2 x i16>
  %v51 = bitcast <2 x i16> %v50 to i32
  %v52 = insertelement <16 x i32> poison, i32 %v51, i64 0
  %v53 = shufflevector <16 x i32> %v52, <16 x i32> poison, <16 x i32> zeroinitializer
  %v54 = bitcast <16 x i32> %v53 to <32 x i16>
  %v55 = bitcast <16 x i32> %v43 to <32 x i16>
  %v56 = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %v54, <32 x i16> %v55)
  %v57 = add <16 x i32> %v33, %v56
  %v58 = getelementptr inbounds float, ptr %v34, i64 8
  %v59 = getelementptr inbounds i8, ptr %v35, i64 2
  %v60 = load i8, ptr %v59, align 1
  %v61 = zext i8 %v60 to i16
  %v62 = zext i16 %v61 to i32
  %v63 = insertelement <16 x i32> poison, i32 %v62, i64 0
  %v64 = shufflevector <16 x i32> %v63, <16 x i32> poison, <16 x i32> zeroinitializer
  %v65 = load <32 x i8>, ptr %v58, align 4
  %v66 = sext <32 x i8> %v65 to <32 x i16>
  %v67 = bitcast <32 x i16> %v66 to <16 x i32>
  %v68 = bitcast <16 x i32> %v64 to <32 x i16>
  %v69 = bitcast <16 x i32> %v67 to <32 x i16>
  %v70 = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %v68, <32 x i16> %v69)
  %v71 = add <16 x i32> %v47, %v70
  %v72 = getelementptr inbounds i8, ptr %v59, i64 5
  %v73 = load i8, ptr %v72, align 1
  %v74 = zext i8 %v73 to i16
  %v75 = zext i16 %v74 to i32
  %v76 = insertelement <16 x i32> poison, i32 %v75, i64 0
  %v77 = shufflevector <16 x i32> %v76, <16 x i32> poison, <16 x i32> zeroinitializer
  %v78 = bitcast <16 x i32> %v77 to <32 x i16>
  %v79 = bitcast <16 x i32> %v67 to <32 x i16>
  %v80 = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %v78, <32 x i16> %v79)
  %v81 = add <16 x i32> %v57, %v80
  %v82 = bitcast <16 x i32> %v71 to <16 x float>
  %v83 = bitcast <16 x i32> %v81 to <16 x float>
  store <16 x float> %v82, ptr %v6, align 4
  %v84 = getelementptr inbounds float, ptr %v6, i64 16
  store <16 x float> %v83, ptr %v84, align 4
  ret void
}
!0 = !{}
